-- title: Loss by bytes sent
-- x: MB sent by all devices
-- y: loss
-- caption: A point is the loss of a batch, after a mean step's bytes for each step so far.
-- wanted: rows of --verbose of several devices: --plan bench/plans/slow-network.yaml
-- by: "case.model", "case.batch_global"
-- one: yes
-- median: yes
-- template: lines
-- log: x
-- place: 185
SELECT number, NULL, "traffic.bytes_sent" / 1e6 * step, loss, NULL, NULL
FROM r JOIN losses USING (number)
WHERE "traffic.bytes_sent" > 0
