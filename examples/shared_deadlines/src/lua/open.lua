-- KEYS: sessions, tokens. ARGV: lease. Returns the new session.
local session = redis.call('INCR', KEYS[2])
redis.call('ZADD', KEYS[1], now + ARGV[1], session)
return session
