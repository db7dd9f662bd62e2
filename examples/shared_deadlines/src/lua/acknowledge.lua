-- KEYS: held, jobs, done. ARGV: job, seconds to remember its name. Returns 0 if the session does not hold the job.
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
    return 0
end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('SET', KEYS[3], 1, 'EX', ARGV[2])
return 1
