-- Sends the requests of a file, made and signed beforehand, each once: `wrk … -- FILE`.
-- The file has for each request a line with its length, then its bytes. Prints figures as JSON.

local file
ended = 0 -- 1: the file had too few requests
sent = {} -- requests sent in each second of the clock

function init(args)
  file = assert(io.open(args[1], "rb"))
end

function request()
  local length = file and file:read("*l")
  if not length then
    ended = 1 -- a request that is sent twice would measure deduplication
    wrk.thread:stop()
    return "GET / HTTP/1.1\r\nhost: x\r\n\r\n"
  end
  local second = os.time()
  sent[second] = (sent[second] or 0) + 1
  return file:read(tonumber(length))
end

local threads = {}

function setup(thread)
  threads[#threads + 1] = thread
end

function done(summary, latency, requests)
  local seconds = {}
  for second, count in pairs(threads[1]:get("sent") or {}) do
    seconds[#seconds + 1] = string.format("[%d, %d]", second, count)
  end
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "microseconds": %d, "refused": %d, "broken": %d, "p50": %.3f, "p99": %.3f, "seconds": [%s], "ended": %d}\n',
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000, table.concat(seconds, ", "),
    threads[1]:get("ended")))
end
