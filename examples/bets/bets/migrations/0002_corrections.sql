-- A status is written as the provider's document has it, and a correction has an end.
UPDATE betting.results SET status = upper(status);
UPDATE betting.corrections SET status = upper(status);

-- late: a score of a match that had ended. repeated: it says the same. refused: it says something else than what bets
-- were settled by, which stays; a person is told.
ALTER TABLE betting.corrections
    ADD COLUMN verdict text NOT NULL DEFAULT 'refused' CHECK (verdict IN ('late', 'repeated', 'refused'));
