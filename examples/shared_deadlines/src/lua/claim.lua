-- KEYS: due, jobs, sessions, tokens, held, batch. ARGV: queue, session, number of the claim, lease, window, room.
-- Ends expired sessions, renews the lease of this one and claims jobs for it. Returns nil if the session has ended.
for _, session in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now)) do
    close(ARGV[1], session)
end
if not redis.call('ZSCORE', KEYS[3], ARGV[2]) then
    return nil
end
redis.call('ZADD', KEYS[3], now + ARGV[4], ARGV[2])

-- The batch begins with its number and its token. If an answer is lost, the claim is repeated with the same number and
-- gets the same batch. If the lost claim arrives after its repetition, its number is too small, and it claims nothing.
if tonumber(ARGV[3]) > tonumber(redis.call('LINDEX', KEYS[6], 0) or 0) then
    redis.call('DEL', KEYS[6])
    redis.call('RPUSH', KEYS[6], ARGV[3], redis.call('INCR', KEYS[4]))
    local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now + ARGV[5], 'WITHSCORES', 'LIMIT', 0, ARGV[6])
    for i = 1, #found, 2 do
        redis.call('ZREM', KEYS[1], found[i])
        redis.call('ZADD', KEYS[5], found[i + 1], found[i])
        redis.call('RPUSH', KEYS[6], found[i])
    end
end
local batch = redis.call('LRANGE', KEYS[6], 0, -1)
local jobs = {}
for i = 3, #batch do
    local deadline = tonumber(redis.call('ZSCORE', KEYS[5], batch[i]))
    local remaining = math.max(deadline - now, 0)
    jobs[#jobs + 1] = {batch[i], redis.call('HGET', KEYS[2], batch[i]), deadline, tonumber(batch[2]), remaining}
end
return jobs
