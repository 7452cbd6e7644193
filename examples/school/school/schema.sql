-- The school's own tables. They know nothing of inboxd: only the service that publishes an activity
-- writes both, in one transaction.

CREATE SCHEMA school;

CREATE TABLE school.institutions (
    id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL
);

CREATE TABLE school.teachers (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    institution_id bigint NOT NULL REFERENCES school.institutions,
    name           text NOT NULL
);

CREATE TABLE school.classes (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    institution_id bigint NOT NULL REFERENCES school.institutions,
    teacher_id     bigint NOT NULL REFERENCES school.teachers,
    name           text NOT NULL
);

CREATE TABLE school.students (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    institution_id bigint NOT NULL REFERENCES school.institutions,
    address        text NOT NULL UNIQUE
);

CREATE TABLE school.enrolments (
    class_id   bigint NOT NULL REFERENCES school.classes,
    student_id bigint NOT NULL REFERENCES school.students,
    PRIMARY KEY (class_id, student_id)
);

CREATE TABLE school.attendances (
    class_id   bigint NOT NULL REFERENCES school.classes,
    student_id bigint NOT NULL REFERENCES school.students,
    lesson     integer NOT NULL,
    PRIMARY KEY (class_id, student_id, lesson)
);

CREATE TABLE school.activities (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    class_id     bigint NOT NULL REFERENCES school.classes,
    title        text NOT NULL,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What students see when they log in.
CREATE TABLE school.notifications (
    activity_id bigint NOT NULL REFERENCES school.activities,
    student_id  bigint NOT NULL REFERENCES school.students
);

-- What was sent, and what teachers and the office were told. No unique keys: a second row would be a
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
