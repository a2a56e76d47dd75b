-- What following predictions costs, over sets of two or more answers to one question: the time of the answer that was
-- predicted the fastest, over the time of the fastest, less 1. Answers are validated rows, or rows of the published
-- ones, in rates, by the questions of reports/questions.json.
WITH answers (question, number, predicted, measured) AS (
  SELECT value -> 'question', key, value ->> 'predicted', value ->> 'measured' FROM json_each(:document, '$.validated')
  UNION ALL SELECT q.id, a.key, 1.0 / (r.value ->> 'predicted'), 1.0 / (r.value ->> 'published')
    FROM json_each(:document, '$.questions') AS q, json_each(q.value) AS a
      JOIN json_each(:document, '$.rows') AS r ON r.value ->> 'id' = a.value ->> 0 AND r.value ->> 'n' = a.value ->> 1),
sets (regret) AS (
  SELECT (SELECT measured FROM answers WHERE question = a.question ORDER BY predicted, number LIMIT 1)
    / min(measured) - 1 FROM answers AS a GROUP BY question HAVING count(*) > 1)
SELECT count(*) AS sets, avg(regret) AS mean, max(regret) AS worst FROM sets;
