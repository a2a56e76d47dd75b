-- Choices by prediction over published rows (reports/questions.json): of each question the published rates of the
-- answer that was predicted the fastest, and of the best one.
WITH answers AS (
  SELECT q.id AS question, a.key AS number, r.value ->> 'predicted' AS predicted, r.value ->> 'published' AS published
  FROM json_each(:document, '$.questions') AS q, json_each(q.value) AS a
    JOIN json_each(:document, '$.rows') AS r ON r.value ->> 'id' = a.value ->> 0 AND r.value ->> 'n' = a.value ->> 1)
SELECT max(published) AS best,
  (SELECT published FROM answers WHERE question = a.question ORDER BY predicted DESC, number LIMIT 1) AS chosen
FROM answers AS a GROUP BY question HAVING count(*) > 1 ORDER BY question;
