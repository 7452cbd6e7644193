// pg-boss's worker with an array handler: fills a queue, drains it, and prints jobs per second.
// node pgboss.mjs DSN ROWS, in a folder that has pg-boss in its node_modules.
import { createRequire } from 'node:module'
const require = createRequire(process.cwd() + '/')
const loaded = await import(require.resolve('pg-boss'))
const PgBoss = loaded.PgBoss ?? loaded.default
const pg = require('pg')
const [dsn, rows] = [process.argv[2], Number(process.argv[3])]

const boss = new PgBoss({ connectionString: dsn })
await boss.start()
await boss.createQueue('noop')
const pad = 'x'.repeat(170)
for (let n = 0; n < rows; n += 1000) {
  const jobs = Array.from({ length: Math.min(1000, rows - n) }, (_, i) => ({ data: { n: n + i, pad } }))
  await boss.insert('noop', jobs)
}
const client = new pg.Client({ connectionString: dsn })
await client.connect()
await client.query('vacuum analyze')
await client.query('checkpoint')
let called = 0, first = 0
await boss.work('noop', { batchSize: 1000, localConcurrency: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 },
  async (jobs) => { first ||= performance.now(); called += jobs.length })
for (;;) {
  await new Promise((done) => setTimeout(done, 5))
  if (called < rows) continue
  const { rows: [left] } = await client.query("select exists (select from pgboss.job where name = 'noop' and state < 'completed') as any")
  if (!left.any) break
}
console.log(rows / ((performance.now() - first) / 1000))
process.exit(0)
