-- KEYS: due, jobs, bell, done. ARGV: job, delay, payload, lease. Rings the bell if the job is due within a lease.
-- Returns 0 if a job of this name exists or was acknowledged lately.
if redis.call('EXISTS', KEYS[4]) == 1 or redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[3]) == 0 then
    return 0
end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
if tonumber(ARGV[2]) < tonumber(ARGV[4]) then
    redis.call('XADD', KEYS[3], 'MAXLEN', 1, '*', 'job', ARGV[1])
end
return 1
