-- The school's own tables. They know nothing of inboxd: only the service that publishes an activity
-- (school/api.py) writes both, in one transaction.

CREATE SCHEMA school;

CREATE TABLE school.institutions (
    id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL
);

CREATE TABLE school.campuses (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    institution_id bigint NOT NULL REFERENCES school.institutions,
    name           text NOT NULL
);

CREATE TABLE school.courses (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    campus_id bigint NOT NULL REFERENCES school.campuses,
    name      text NOT NULL
);

CREATE TABLE school.disciplines (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    institution_id bigint NOT NULL REFERENCES school.institutions,
    name           text NOT NULL,
    UNIQUE (institution_id, name)
);

-- The disciplines that a course teaches, and in which term.
CREATE TABLE school.curricula (
    course_id     bigint NOT NULL REFERENCES school.courses,
    discipline_id bigint NOT NULL REFERENCES school.disciplines,
    term          integer NOT NULL,
    PRIMARY KEY (course_id, discipline_id)
);

CREATE TABLE school.teachers (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    institution_id bigint NOT NULL REFERENCES school.institutions,
    name           text NOT NULL
);

CREATE TABLE school.students (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    course_id bigint NOT NULL REFERENCES school.courses,
    term      integer NOT NULL,
    address   text NOT NULL UNIQUE
);

CREATE TABLE school.classes (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    course_id     bigint NOT NULL REFERENCES school.courses,
    discipline_id bigint NOT NULL REFERENCES school.disciplines,
    teacher_id    bigint NOT NULL REFERENCES school.teachers,
    name          text NOT NULL
);

CREATE TABLE school.lessons (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    class_id bigint NOT NULL REFERENCES school.classes,
    held_on  date NOT NULL,
    UNIQUE (class_id, held_on)
);

CREATE TABLE school.enrolments (
    class_id   bigint NOT NULL REFERENCES school.classes,
    student_id bigint NOT NULL REFERENCES school.students,
    PRIMARY KEY (class_id, student_id)
);

-- Students who were present, of those who should have been.
CREATE TABLE school.attendances (
    lesson_id  bigint NOT NULL REFERENCES school.lessons,
    student_id bigint NOT NULL REFERENCES school.students,
    present    boolean NOT NULL,
    PRIMARY KEY (lesson_id, student_id)
);

CREATE TABLE school.activities (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    class_id     bigint NOT NULL REFERENCES school.classes,
    title        text NOT NULL CHECK (title <> ''),
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    reached_at   timestamptz  -- everybody in the class; null: not yet
);

-- Messages that students see when they log in.
CREATE TABLE school.notifications (
    activity_id bigint NOT NULL REFERENCES school.activities,
    student_id  bigint NOT NULL REFERENCES school.students
);

-- Sent mails, and messages to teachers and to the office. No unique keys: a second row would be a
-- handler's effect that committed twice, and the demo counts them instead of hiding them.
CREATE TABLE school.deliveries (
    activity_id  bigint NOT NULL REFERENCES school.activities,
    student_id   bigint NOT NULL REFERENCES school.students,
    delivered_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE school.messages (
    activity_id bigint NOT NULL REFERENCES school.activities,
    reader      text NOT NULL CHECK (reader IN ('teacher', 'office')),
    written_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Answers of students, and their marks. No unique key either.
CREATE TABLE school.grades (
    activity_id bigint NOT NULL REFERENCES school.activities,
    student_id  bigint NOT NULL REFERENCES school.students,
    answer      integer NOT NULL,
    points      integer NOT NULL
);
