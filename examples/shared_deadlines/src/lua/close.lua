-- KEYS: sessions, bell. ARGV: queue, session.
close(ARGV[1], ARGV[2])
redis.call('XADD', KEYS[2], 'MAXLEN', 1, '*', 'session', ARGV[2])
return 1
