-- KEYS: due, jobs, bell, done. ARGV: job, delay, payload, workers are called if it is due before this has passed.
-- Returns 0 if there is or was a job of this name.
if redis.call('EXISTS', KEYS[4]) == 1 or redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[3]) == 0 then
    return 0
end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
if tonumber(ARGV[2]) < tonumber(ARGV[4]) then
    redis.call('XADD', KEYS[3], 'MAXLEN', 1, '*', 'job', ARGV[1])
end
return 1
