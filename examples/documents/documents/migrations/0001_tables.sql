-- The office's own tables.
CREATE SCHEMA office;

CREATE TABLE office.documents (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    html  text NOT NULL,
    state text NOT NULL DEFAULT 'submitted' CHECK (state IN ('submitted', 'converted', 'failed'))
);

CREATE TABLE office.pdfs (
    document_id  bigint PRIMARY KEY REFERENCES office.documents,
    path         text NOT NULL,
    bytes        bigint NOT NULL,
    converted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Which PDF of an archive lies in which of its boxes.
CREATE TABLE office.packings (
    archive_id  bigint NOT NULL,
    document_id bigint NOT NULL REFERENCES office.pdfs,
    box         integer NOT NULL,
    PRIMARY KEY (archive_id, document_id)
);
