-- Runs before each script. Times are in microseconds of the server's clock; no other clock decides anything.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Ends a session and puts its jobs back.
local function close(queue, session)
    local held = queue .. ':held:' .. session
    local jobs = redis.call('ZRANGE', held, 0, -1, 'WITHSCORES')
    for i = 1, #jobs, 2 do
        redis.call('ZADD', queue .. ':due', jobs[i + 1], jobs[i])
    end
    redis.call('DEL', held, queue .. ':batch:' .. session)
    redis.call('ZREM', queue .. ':sessions', session)
end
