-- What a store does, as decide.go says it, in one step on the server.
-- ARGV[1] says which step: exchange, pulse, members or put. Times are whole microseconds since
-- 1970; every number is below 2^53, so that floating point holds it exactly. Sequence
-- numbers are texts of 20 digits, which compare like the numbers.

local most, brims = 2 ^ 50, 2 ^ 52
local step, argument = ARGV[1], 1
local function take()
	argument = argument + 1
	return ARGV[argument]
end
local function text(n) return string.format('%.0f', n) end

-- generation is this life of the data: it is another after a restart, and after a
-- replica has become the master. A server that does not say it names its process.
local function generation()
	for _, part in ipairs({'replication', 'server'}) do
		local info = redis.pcall('INFO', part)
		if type(info) == 'table' then return nil end
		local id = string.match(info, 'master_replid:(%w+)') or string.match(info, 'run_id:(%w+)')
		if id then return id end
	end
	return nil
end

-- clock is the server's, unless a time is passed.
local function clock(passed)
	if passed ~= '' then return tonumber(passed) end
	local t = redis.call('TIME')
	return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

local life = generation()
if not life then
	return redis.error_reply('NOINFO the user may not run INFO')
end
local now = clock(take())

-- keep lets a key live until a time, and a minute longer: the clock of a test may be
-- another than that by which keys expire.
local function keep(key, till)
	redis.call('PEXPIRE', key, text(math.max(math.ceil((till - now) / 1000), 0) + 60000))
end

-- read is a hash as pairs, or what is wrong: 'alien' when the key is something else.
local function read(key)
	local fields = redis.pcall('HGETALL', key)
	if fields.err then
		if string.find(fields.err, 'WRONGTYPE', 1, true) then return nil, 'alien' end
		return nil, fields
	end
	return fields
end

if step == 'pulse' then
	local whole, id, name, gone, lifetime = take(), take(), take(), take(), tonumber(take())
	if whole == '' then whole = life end
	local members, names, born = KEYS[1], KEYS[2], KEYS[3]
	if redis.call('HGET', born, 'generation') ~= whole then
		redis.call('HSET', born, 'generation', whole, 'since', text(now))
	end
	if gone == '1' then
		redis.call('ZREM', members, id)
		redis.call('HDEL', names, id)
	elseif id ~= '' then
		redis.call('ZADD', members, text(now + lifetime), id)
		redis.call('HSET', names, id, text(now) .. ':' .. name)
		keep(members, now + lifetime)
		keep(names, now + lifetime)
	end
	local over = redis.call('ZRANGEBYSCORE', members, '-inf', '(' .. text(now), 'LIMIT', '0', '100')
	if #over > 0 then
		redis.call('ZREM', members, unpack(over))
		redis.call('HDEL', names, unpack(over))
	end
	local since = math.max(now - tonumber(redis.call('HGET', born, 'since')), 0)
	local count = redis.call('ZCOUNT', members, text(now), '+inf')
	return {life, text(now), text(since), redis.call('GET', KEYS[4]) or '0', count}
end

if step == 'members' then
	local list = {}
	for i, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], text(now), '+inf', 'LIMIT', '0', take())) do
		list[2 * i - 1], list[2 * i] = id, redis.call('HGET', KEYS[2], id) or ''
	end
	return list
end

if step == 'put' then
	local name, till, value, channel = take(), take(), take(), take()
	if till == '' then
		redis.call('HDEL', KEYS[1], name)
	else
		redis.call('HSET', KEYS[1], name, till .. ':' .. value)
	end
	local version = redis.call('INCR', KEYS[2])
	if version % 64 == 0 then -- what is over goes, once in a while
		local all = redis.call('HGETALL', KEYS[1])
		for i = 1, #all, 2 do
			local over = tonumber(string.match(all[i + 1], '^(%d+):') or 0)
			if over > 0 and over <= now then redis.call('HDEL', KEYS[1], all[i]) end
		end
	end
	redis.call('PUBLISH', channel, '')
	return life
end

-- An entry is {seq, said, heard, window, n, window, n …}, where heard is odd if
-- something was wanted, and without that twice the time; that of a Count is
-- {seq, state, ahead}. They are under the name of the instance after a letter, beside
-- the latest time that the budget has seen.

local function held(e, window)
	for i = 4, #e, 2 do
		if e[i] == window then return e[i + 1] end
	end
	return 0
end

local function add(e, window, n)
	if n <= 0 then return end
	for i = 4, #e, 2 do
		if e[i] == window then
			e[i + 1] = math.min(e[i + 1] + n, most)
			return
		end
		if e[i] > window then
			table.insert(e, i, n)
			table.insert(e, i, window)
			return
		end
	end
	e[#e + 1] = window
	e[#e + 1] = n
end

local function grant(left, want, least, waits, holders)
	if want < least or left < least then return 0 end
	if holders > 1 then
		local part = math.floor((left - 1) / (2 * holders)) + 1
		want = math.min(want, math.max(part, least, waits))
	end
	return math.min(want, left)
end

local awaited, lately = 60 * 1000000, 2 * 1000000

-- active tells whether somebody uses the budget, at a time.
local function active(e, at)
	local wants = e[3] % 2 == 1
	local heard = (e[3] - e[3] % 2) / 2
	if not wants and #e < 4 then return false end
	return heard == 0 or at - heard <= (wants and awaited or lately)
end

-- since is an entry without what is before a window, and whether that is another.
local function since(e, first)
	if not e[4] or e[4] >= first then return e, false end
	local kept = {e[1], e[2], e[3]}
	for i = 4, #e, 2 do
		if e[i] >= first then
			kept[#kept + 1] = e[i]
			kept[#kept + 1] = e[i + 1]
		end
	end
	return kept, true
end

local month = 31 * 24 * 3600 * 1000000

local function answer(key, who, foreign)
	local kind, seq = take(), take()
	local amount, width, slots = tonumber(take()), tonumber(take()), tonumber(take())
	local want, least, waits, ahead = tonumber(take()), tonumber(take()), tonumber(take()), tonumber(take())
	local state, holds, edges = take(), take(), take()
	local stale, failed = {1, 0, 0, 0, 0, 0, 0, 0}, {3, 0, 0, 0, 0, 0, 0, 0}

	local fields, wrong = read(key)
	if wrong == 'alien' then return failed end
	if wrong then return nil, wrong end
	local entries, at = {}, now
	if #fields > 0 then
		local last
		for i = 1, #fields, 2 do
			local name, value = fields[i], fields[i + 1]
			if name == 'now' then
				last = tonumber(value)
			elseif string.byte(name) == 105 then -- i
				local ok, e = pcall(cmsgpack.unpack, value)
				if not ok or type(e) ~= 'table' or type(e[1]) ~= 'string' then return failed end
				entries[string.sub(name, 2)] = e
			else
				return failed
			end
		end
		if not last then return failed end
		at = math.max(at, last)
	end
	local mine = entries[who]
	if kind == '1' then
		if mine and seq <= mine[1] then return stale end
		redis.call('HSET', key, 'now', text(at), 'i' .. who, cmsgpack.pack({seq, state, want}))
		keep(key, at + month)
		return {0, 0, 0, want, 0, 0, 1, 0}
	end

	-- Where the present is.
	local window, following, ends, first, early, till
	if width > 0 then
		window = (at - at % width) / width
		following, ends = window + 1, (window + 1) * width
		first, early = window, window - 1
		if kind == '3' then first, early = window - slots, window - slots end
	elseif kind == '4' then
		local before, begin
		for e in string.gmatch(edges, '%d+') do
			e = tonumber(e)
			till = e
			if e <= at then
				before, begin = begin, e
			elseif begin and not ends then
				ends = e
			end
		end
		if not ends then return failed end
		window = math.floor(begin / 1000000)
		following, first = math.floor(ends / 1000000), window
		early = math.floor((before or begin) / 1000000)
		begin = window * 1000000
		till = {till, 2 * (ends - begin)}
	else
		return failed
	end

	if mine then
		local kept = since(mine, first)
		if (#kept >= 4 or kept[2] >= early) and seq <= mine[1] then return stale end
	end

	-- What no longer counts goes. An entry without anything stays a little, so that a
	-- message that comes late is still known to be old.
	entries[who] = nil
	local holders, last, oldest = 1, window, nil
	local sums = {} -- what the others have, in each window
	for name, e in next, entries do
		local kept, other = since(e, first)
		local n = #kept
		if n < 4 and kept[2] < early then
			redis.call('HDEL', key, 'i' .. name)
		else
			if kept[3] % 2 == 1 and kept[2] < early then kept[3], other = kept[3] - 1, true end
			if other then redis.call('HSET', key, 'i' .. name, cmsgpack.pack(kept)) end
			if active(kept, at) then holders = holders + 1 end
			for i = 4, n, 2 do
				local w = kept[i]
				sums[w] = math.min((sums[w] or 0) + kept[i + 1], brims)
			end
		end
	end
	mine = {seq, window, 2 * at + ((want > 0 or ahead > 0) and 1 or 0)}
	for w, n in string.gmatch(holds, '(-?%d+):(%d+)') do
		w = tonumber(w)
		if w >= first then
			mine[#mine + 1] = w
			mine[#mine + 1] = tonumber(n)
		end
	end

	local function sumOf(w) return math.min((sums[w] or 0) + held(mine, w), brims) end
	local function sum()
		if kind ~= '3' then return sumOf(window) end
		local total = 0
		for _, n in next, sums do total = math.min(total + n, brims) end
		for i = 5, #mine, 2 do total = math.min(total + mine[i], brims) end
		return total
	end

	-- reserve adds some of later slots, as soon as there will be room.
	local function reserve(rest)
		for i = 4, #mine, 2 do
			if mine[i] > window then rest = rest - mine[i + 1] end
		end
		if rest <= 0 then return end
		local ends = {}
		for w, n in next, sums do ends[w] = n end
		for i = 4, #mine, 2 do ends[mine[i]] = (ends[mine[i]] or 0) + mine[i + 1] end
		local total = sum()
		if total == brims then return end
		for w = window + 1, window + slots + 1 do
			if rest <= 0 then return end
			total = total - (ends[w - slots - 1] or 0)
			local n = math.min(amount - total, rest)
			if n >= math.min(least, rest) then
				add(mine, w, n)
				total, rest = total + n, rest - n
			end
		end
	end

	if not foreign then
		local most = math.floor(amount / (2 * holders))
		local whole = math.min(waits, most)
		local got = grant(amount - sum(), want, least, whole, holders)
		add(mine, window, got)
		if kind == '3' then
			reserve(math.min(ahead, math.max(most, least)) - got)
		else
			-- A newcomer should find some of the next window as well.
			local more = math.min(ahead, math.max(most, least)) - held(mine, following)
			add(mine, following, grant(amount - sumOf(following), more, least, whole, holders))
		end
	end
	redis.call('HSET', key, 'now', text(at), 'i' .. who, cmsgpack.pack(mine))

	if #mine >= 5 then
		last = math.max(last, mine[#mine - 1])
		oldest = mine[4]
	end
	for w in next, sums do
		last = math.max(last, w)
		oldest = math.min(oldest or w, w)
	end
	local free, later = 0, 0
	if kind == '3' then
		if oldest then free = (oldest + slots + 1) * width - at end
		keep(key, (last + slots + 1) * width)
	else
		later = held(mine, following)
		if kind == '2' then
			keep(key, (last + 2) * width)
		else
			keep(key, math.max(till[1], last * 1000000) + till[2])
		end
	end
	local said = {foreign and 2 or 0, window, ends - at, held(mine, window), later,
		math.max(amount - sum(), 0), holders, free}
	for i = 4, #mine, 2 do
		if kind == '3' and mine[i] > window then
			said[#said + 1] = mine[i]
			said[#said + 1] = mine[i + 1]
		end
	end
	return said
end

-- notes takes up what is said, drops what is over, and returns all that stand.
local function notes(key, count)
	local fields, wrong = read(key)
	if wrong == 'alien' then
		argument = argument + 4 * count
		return {}, false
	end
	if wrong then return nil, wrong end
	local known, changed = {}, {}
	for i = 1, #fields, 2 do
		local ok, n = pcall(cmsgpack.unpack, fields[i + 1])
		if ok and type(n) == 'table' and n[1] > now then
			known[fields[i]] = n
		else
			redis.call('HDEL', key, fields[i])
		end
	end
	local news = false
	for _ = 1, count do
		local name, left, n, said = take(), tonumber(take()), tonumber(take()), take()
		local till = now + left
		local old = known[name]
		local better = left > 0
		if better and old then
			if math.abs(till - old[1]) > 1000000 then
				better = till > old[1]
			else
				better = n > old[2]
			end
		end
		if better then
			known[name] = {till, n, said}
			changed[name], news = true, true
		end
	end
	local list, last = {}, now
	for name, n in next, known do
		if changed[name] then redis.call('HSET', key, name, cmsgpack.pack(n)) end
		last = math.max(last, n[1])
		list[#list + 1] = {name, n[1] - now, n[2], n[3]}
	end
	if news then keep(key, last) end
	return list, news
end

-- For which lives of the data the batch is, as the client has translated it.
local lives, fresh, who, site, channel = take(), take(), take(), take(), take()
local foreign = fresh ~= '1' and not string.find(lives, life, 1, true)
local answers = {}
local asks = tonumber(take())
for i = 1, asks do
	local one, wrong = answer(KEYS[1 + i], who, foreign)
	if wrong then return wrong end
	answers[i] = one
end
local list, news = notes(KEYS[1], tonumber(take()))
if not list then return news end
if news then redis.call('PUBLISH', channel, site) end
return {life, answers, list}
