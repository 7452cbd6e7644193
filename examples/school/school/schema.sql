-- The school's own tables. They know nothing of inboxd: only the service that publishes an activity
-- writes both, in one transaction.

CREATE SCHEMA school;

CREATE TABLE school.classes (
    id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL
);

CREATE TABLE school.students (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    address text NOT NULL UNIQUE
);

CREATE TABLE school.enrolments (
    class_id   bigint NOT NULL REFERENCES school.classes,
    student_id bigint NOT NULL REFERENCES school.students,
    PRIMARY KEY (class_id, student_id)
);

CREATE TABLE school.activities (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    class_id     bigint NOT NULL REFERENCES school.classes,
    title        text NOT NULL,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What was sent. No unique key: a second row for a pair would be a handler's effect that committed
-- twice, and the demo counts them instead of hiding them.
CREATE TABLE school.deliveries (
    activity_id  bigint NOT NULL REFERENCES school.activities,
    student_id   bigint NOT NULL REFERENCES school.students,
    delivered_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
