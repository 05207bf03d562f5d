-- What a store does, as package reference says it, in one step on the server.
-- ARGV[1] says which step: exchange, pulse, members or put. Times are whole microseconds
-- since 1970; every number is below 2^53, so that floating point holds it exactly.

local most, brims = 2 ^ 50, 2 ^ 52
local step, argument = ARGV[1], 1
local function take()
	argument = argument + 1
	return ARGV[argument]
end
local function text(n) return string.format('%.0f', n) end

-- clock is the server's, unless a time is passed.
local function clock(passed)
	if passed ~= '' then return tonumber(passed) end
	local t = redis.call('TIME')
	return tonumber(t[1]) * 1000000 + tonumber(t[2])
end
local now = clock(take())

-- drop removes a key, which needs no permission that prolonging it does not need.
local function drop(key) redis.call('PEXPIRE', key, '-1') end

-- call runs a command on a key. What is of another type there is not of abide, but the
-- key is: it is removed, and the second result is true.
local function call(command, key, ...)
	local result = redis.pcall(command, key, ...)
	if type(result) ~= 'table' or not result.err then return result, false end
	local alien = string.find(result.err, 'WRONGTYPE', 1, true) ~= nil
	if alien then drop(key) end
	return redis.call(command, key, ...), alien
end

-- mark is a name that nothing else has which it could be taken for.
local function mark(of, length)
	local t = redis.call('TIME')
	return string.sub(redis.sha1hex(t[1] .. ' ' .. t[2] .. ' ' .. of), 1, length)
end

-- server names this life of the server: it is another after a restart, and after a
-- replica has become the master. It is '' if the server does not say.
local function server()
	for _, part in ipairs({'replication', 'server'}) do
		local info = redis.pcall('INFO', part)
		if type(info) == 'table' then return '' end
		local id = string.match(info, 'master_replid:(%w+)') or string.match(info, 'run_id:(%w+)')
		if id then return id end
	end
	return ''
end

-- lives names this life of the data, and says since when that is known. It is that of
-- the server and of a mark, which goes when everything is removed. Without the key of
-- the mark, which in a Cluster is on one of the masters, it is that of the server.
local function lives(key, channel)
	local id = server()
	if not key then return string.sub(id, 1, 10), 0 end
	local was, life, since = string.match(call('HGET', key, 'life') or '', '^(%w*) (%w+) (%d+)$')
	since = tonumber(since)
	if was ~= id then
		life, since = mark(id, 10), now
		redis.call('HSET', key, 'life', id .. ' ' .. life .. ' ' .. text(now))
		redis.call('PUBLISH', channel, '!')
	elseif since > now then -- the clock was set back
		since = now
		redis.call('HSET', key, 'life', id .. ' ' .. life .. ' ' .. text(now))
	end
	return life, since
end

-- keep lets a key live until a time, and a minute longer: the clock of a test may be
-- another than that by which keys expire.
local function keep(key, till)
	redis.call('PEXPIRE', key, text(math.max(math.ceil((till - now) / 1000), 0) + 60000))
end

-- version is that of the documents.
local function version(key)
	local v = call('GET', key)
	if v and (#v > 15 or not string.match(v, '^%d+$')) then
		drop(key)
		v = false
	end
	return v or '0'
end

if step == 'pulse' then
	local id, name, gone, lifetime, channel = take(), take(), take(), tonumber(take()), take()
	local members, names = KEYS[1], KEYS[2]
	local life, since = lives(KEYS[3], channel)
	if gone == '1' then
		call('ZREM', members, id)
		call('HDEL', names, id)
	elseif id ~= '' then
		call('ZADD', members, text(now + lifetime), id)
		call('HSET', names, id, text(now) .. ':' .. name)
		keep(members, now + lifetime)
		keep(names, now + lifetime)
	end
	local over = call('ZRANGEBYSCORE', members, '-inf', '(' .. text(now), 'LIMIT', '0', '100')
	if #over > 0 then
		redis.call('ZREM', members, unpack(over))
		call('HDEL', names, unpack(over))
	end
	local count = redis.call('ZCOUNT', members, text(now), '+inf')
	return {life, now, now - since, tonumber(version(KEYS[4])), count}
end

if step == 'members' then
	local list = {}
	for i, id in ipairs((call('ZRANGEBYSCORE', KEYS[1], text(now), '+inf', 'LIMIT', '0', take()))) do
		list[2 * i - 1], list[2 * i] = id, call('HGET', KEYS[2], id) or ''
	end
	return list
end

if step == 'put' then
	local name, till, value, channel = take(), take(), take(), take()
	if till == '' then
		call('HDEL', KEYS[1], name)
	else
		call('HSET', KEYS[1], name, till .. ':' .. value)
	end
	version(KEYS[2])
	if redis.call('INCR', KEYS[2]) % 64 == 0 then -- what is over goes, once in a while
		local all = redis.call('HGETALL', KEYS[1])
		for i = 1, #all, 2 do
			local over = tonumber(string.match(all[i + 1], '^(%d+):') or 0)
			if over > 0 and over <= now then redis.call('HDEL', KEYS[1], all[i]) end
		end
	end
	redis.call('PUBLISH', channel, '')
	return 'OK'
end

-- What is written down of a budget is one hash. Its field s is what all have together:
-- {birth, life, now, until, settles, kept, added, {window, n …}, {until, users …}}, after a
-- loss with {window, counted, known} of the time before behind them, and
-- i with the short name of an instance is the entry of that: {seq, said, active, window, n …}.
-- Of these times until and active are seconds. That way both fields are at most 64 bytes
-- as a rule, above which a hash takes twice the memory.

-- held, add and count are for pairs in their order, from an index on.
local function held(list, from, window)
	for i = from, #list, 2 do
		if list[i] == window then return list[i + 1] end
	end
	return 0
end

local function add(list, from, window, n, bound)
	if n <= 0 then return end
	for i = from, #list, 2 do
		if list[i] == window then
			list[i + 1] = math.min(list[i + 1] + n, bound)
			return
		end
		if list[i] > window then
			table.insert(list, i, math.min(n, bound))
			table.insert(list, i, window)
			return
		end
	end
	list[#list + 1] = window
	list[#list + 1] = math.min(n, bound)
end

-- count adds, or takes away. What is too much to be counted stays so.
local function count(list, window, n)
	if n > 0 then return add(list, 1, window, n, brims) end
	for i = 1, #list, 2 do
		if list[i] == window then
			if list[i + 1] >= brims then return end
			list[i + 1] = list[i + 1] + n
			if list[i + 1] <= 0 then
				table.remove(list, i)
				table.remove(list, i)
			end
			return
		end
	end
end

-- since is a list of pairs without those before the first.
local function since(list, first)
	if not list[1] or list[1] >= first then return list end
	local kept = {}
	for i = 1, #list, 2 do
		if list[i] >= first then
			kept[#kept + 1] = list[i]
			kept[#kept + 1] = list[i + 1]
		end
	end
	return kept
end

local function grant(left, want, least, waits, holders)
	if want < least or left < least then return 0 end
	if holders > 1 then
		local part = math.floor((left - 1) / (2 * holders)) + 1
		want = math.min(want, math.max(part, least, waits))
	end
	return math.min(want, left)
end

-- newer compares sequence numbers, which are texts of digits.
local function newer(seq, than)
	if #seq ~= #than then return #seq > #than end
	return seq > than
end

-- over tells whether nothing of an entry is of use any more.
local function over(e, first, early)
	return e[2] < early and (#e < 5 or e[#e - 1] < first)
end

-- number, ordered, record and entry tell whether a value is what this script writes.
local function number(n) return type(n) == 'number' and n > -2 ^ 53 and n < 2 ^ 53 end

local function ordered(list, from)
	local last = -2 ^ 53
	for i = from, #list, 2 do
		local at, n = list[i], list[i + 1]
		if not number(at) or not number(n) or at <= last or n <= 0 then return false end
		last = at
	end
	return true
end

local function record(r)
	for i = 3, 7 do
		if not number(r[i]) then return false end
	end
	local was = r[10]
	if was and not (type(was) == 'table' and number(was[1]) and number(was[2]) and number(was[3])) then return false end
	return type(r[2]) == 'string' and type(r[8]) == 'table' and type(r[9]) == 'table' and ordered(r[8], 1) and ordered(r[9], 1)
end

local function entry(e) return string.match(e[1], '^%d+$') and number(e[2]) and number(e[3]) and ordered(e, 4) end

-- fetch is a field of a budget: false if it is not there. A key that has something that
-- this script does not write is removed, and the second result is true.
local function fetch(key, field, sound)
	local packed, alien = call('HGET', key, field)
	if not packed then return false, alien end
	local ok, value = pcall(cmsgpack.unpack, packed)
	if ok and type(value) == 'table' and type(value[1]) == 'string' and sound(value) then return value, false end
	drop(key)
	return false, true
end

-- The ends of a site's budgets, each under its name, are in a hash beside them, so that
-- one that is not there before its end is known to be lost. Under '' are the latest of
-- them, and how many names there were after the last sweep and came since.
local function known(ends, name)
	return (tonumber(call('HGET', ends, name) or 0) or 0) * 1000000 >= now
end

local function register(ends, name, till)
	local was = call('HGET', ends, name)
	local latest, kept, added = string.match(redis.call('HGET', ends, '') or '', '^(%d+) (%d+) (%d+)$')
	latest, kept, added = tonumber(latest or 0), tonumber(kept or 0), tonumber(added or 0)
	if not was then added = added + 1 end
	if added > kept + 32 then
		local all = redis.call('HGETALL', ends)
		kept, added = 0, 0
		for i = 1, #all, 2 do
			if all[i] ~= '' and (tonumber(all[i + 1]) or 0) * 1000000 < now then
				redis.call('HDEL', ends, all[i])
			else
				kept = kept + 1
			end
		end
	end
	local last = math.max(latest, till)
	redis.call('HSET', ends, name, text(till), '', text(last) .. ' ' .. kept .. ' ' .. added)
	if till > latest then keep(ends, till * 1000000) end
end

local settling, spare = 3 * 1000000, 60 * 1000000
local awaited, lately = 60 * 1000000, 2 * 1000000

-- answer decides an Ask, as package reference does. It also returns whether something was lost.
local function answer(key, name, ends, who, foreign, life, began)
	local kind, seq = take(), take()
	local amount, width, slots = tonumber(take()), tonumber(take()), tonumber(take())
	local want, least, waits, ahead = tonumber(take()), tonumber(take()), tonumber(take()), tonumber(take())
	local lasts = tonumber(take())
	local holds, edges = take(), take()
	local past, birth, heard = tonumber(take()), take(), tonumber(take())
	local countedIn, counted, had = tonumber(take()), tonumber(take()), tonumber(take())
	local stale, failed = {'', 1, 0, 0, 0, 0, 0, 0, 0}, {'', 3, 0, 0, 0, 0, 0, 0, 0}

	local old, ruined = fetch(key, 'i' .. who, entry)
	-- What somebody has overwritten is lost, and all that belongs to it.
	local r, gone = fetch(key, 's', record)
	if not r and #redis.call('HGETALL', key) > 0 then
		drop(key)
		gone = true
	end
	ruined = ruined or gone
	if not r then r, old = {'', life, 0, 0, 0, 0, 0, {}, {}}, false end
	local at = math.max(now, r[3], heard)

	-- Where the present is.
	local window, following, closes, first, early, till
	if width > 0 then
		window = (at - at % width) / width
		following, closes = window + 1, (window + 1) * width
		first, early = window, window - 1
		if kind == '3' then first, early = window - slots, window - slots end
	elseif kind == '4' then
		local before, begin
		for e in string.gmatch(edges, '%d+') do
			e = tonumber(e)
			till = e
			if e <= at then
				before, begin = begin, e
			elseif begin and not closes then
				closes = e
			end
		end
		if not closes then return failed end
		window = math.floor(begin / 1000000)
		following, first = math.floor(closes / 1000000), window
		early = math.floor((before or begin) / 1000000)
	else
		return failed
	end
	-- counts is when what is held in a window counts no more.
	local function counts(w)
		if kind == '2' then return (w + 1) * width end
		if kind == '3' then return (w + slots + 1) * width end
		return math.huge
	end
	if old and not over(old, first, early) and not newer(seq, old[1]) then return stale end

	local mine = {seq, window, 0}
	local from = math.max(first, past + 1)
	for w, n in string.gmatch(holds, '(-?%d+):(%d+)') do
		w = tonumber(w)
		if w >= from then
			mine[#mine + 1] = w
			mine[#mine + 1] = tonumber(n)
		end
	end

	-- A record that is new has a birth mark, and another one if something may be lost.
	local fresh, lost = r[1] == '' or r[4] * 1000000 < now, false
	local moved, missed = not fresh and r[2] ~= life, fresh and (ruined or known(ends, name))
	if fresh then
		lost = missed or birth ~= '' and (#mine >= 5 or now < heard + spare)
	elseif moved then
		lost = true
	elseif birth == r[1] then
		lost = heard > r[3]
	elseif birth ~= '' then
		lost = #mine >= 5 and r[5] == 0
	end
	local young, named = fresh and began + settling > now and not missed, r[1]
	if began > 0 and (moved or young) then
		r[1], r[5], lost = mark(key .. who, 8), began + settling, false
	elseif lost then
		r[1], r[5] = mark(key .. who, 8), now + settling
	elseif fresh then
		r[1], r[5] = mark(key .. who, 8), 0
	end
	if r[1] ~= named then r[10] = nil end
	local wait = r[5] - now
	if wait > settling then -- the clock was set back
		r[5], wait = now + settling, settling
	end
	if not old then r[7] = r[7] + 1 end
	r[2], r[3] = life, at

	-- What it has said before is exchanged for what it says now.
	local totals, active = since(r[8], first), since(r[9], math.ceil(at / 1000000))
	if birth ~= '' and birth ~= r[1] and kind ~= '3' then -- what it knows of the time before a loss
		local was = r[10]
		if countedIn == window and window >= from then -- it gives nothing back now
			add(mine, 4, window, had - held(mine, 4, window), most)
		end
		if countedIn == window and counted > 0 then
			if not was or was[1] ~= window then was = {window, 0, held(totals, 1, window)} end
			was[2] = math.max(was[2], counted)
		end
		if was and was[1] == window then
			local said = old and window >= from and held(old, 4, window) or 0
			was[3] = math.min(math.max(was[3] + held(mine, 4, window) - said, 0), brims)
		end
		r[10] = was
	end
	if old then
		if old[3] > 0 then count(active, old[3], -1) end
		for i = 4, #old, 2 do
			if old[i] >= from then count(totals, old[i], -old[i + 1]) end
		end
	end
	for i = 4, #mine, 2 do count(totals, mine[i], mine[i + 1]) end
	local holders = 1
	for i = 2, #active, 2 do holders = holders + active[i] end
	local uses = 0
	if want > 0 or ahead > 0 then
		uses = math.min(at + awaited, counts(kind == '2' and window + 1 or window))
	elseif #mine >= 5 then
		uses = math.min(at + lately, counts(mine[#mine - 1]))
	end
	if uses > 0 then
		mine[3] = math.ceil(uses / 1000000)
		count(active, mine[3], 1)
	end

	local function sum()
		if kind ~= '3' then
			local was, gone = r[10], 0
			if was and was[1] == window then gone = math.max(was[2] - was[3], 0) end
			return math.min(held(totals, 1, window) + gone, brims)
		end
		local total = 0
		for i = 2, #totals, 2 do total = math.min(total + totals[i], brims) end
		return total
	end
	local function give(w, n)
		if n <= 0 then return end
		add(mine, 4, w, n, most)
		count(totals, w, n)
	end
	-- reserve adds some of later slots, as soon as there will be room.
	local function reserve(rest)
		for i = 4, #mine, 2 do
			if mine[i] > window then rest = rest - mine[i + 1] end
		end
		local total, was = sum(), {}
		if rest <= 0 or total == brims then return end
		for i = 1, #totals, 2 do was[totals[i]] = totals[i + 1] end
		for w = following, following + slots do
			if rest <= 0 then return end
			total = total - (was[w - slots - 1] or 0)
			local n = math.min(amount - total, rest)
			if n >= math.min(least, rest) then
				give(w, n)
				total, rest = total + n, rest - n
			end
		end
	end
	foreign = foreign or wait > 0
	if not foreign then
		local part = math.floor(amount / (2 * holders))
		local whole = math.min(waits, part)
		local left = amount - sum()
		local got = grant(left, want, least, whole, holders)
		local slot = window
		if kind == '3' and got > 0 and left - got > math.floor(amount / (holders > 1 and 2 or 4)) then slot = window + lasts end
		give(slot, got)
		-- A newcomer should find some of the next window as well.
		ahead = math.min(ahead, math.max(part, least))
		if slot > window then -- it is of use until then
		elseif kind == '3' then
			reserve(ahead - got)
		else
			give(following, grant(amount - held(totals, 1, following), ahead - held(mine, 4, following), least, whole, holders))
		end
	end

	if r[7] > r[6] + 32 then -- entries of those who are long gone
		local all = redis.call('HGETALL', key)
		r[6], r[7] = 1, 0
		for i = 1, #all, 2 do
			if all[i] ~= 's' and all[i] ~= 'i' .. who then
				local ok, e = pcall(cmsgpack.unpack, all[i + 1])
				if ok and type(e) == 'table' and type(e[2]) == 'number' and not over(e, first, early) then
					r[6] = r[6] + 1
				else
					redis.call('HDEL', key, all[i])
				end
			end
		end
	end
	local last = math.max(window, totals[#totals - 1] or 0)
	if kind == '2' then
		till = (last + 2) * width
	elseif kind == '3' then
		till = (last + slots + 1) * width
	else
		till = math.max(till, last * 1000000) + 2 * (closes - window * 1000000)
	end
	local prolong = till > r[4] * 1000000
	if prolong then r[4] = math.ceil((till + spare) / 1000000) end
	r[8], r[9] = totals, active
	redis.call('HSET', key, 's', cmsgpack.pack(r), 'i' .. who, cmsgpack.pack(mine))
	if prolong then
		keep(key, r[4] * 1000000)
		register(ends, name, r[4])
	end

	local said = {r[1], foreign and 2 or 0, window, closes - at, held(mine, 4, window),
		math.max(amount - sum(), 0), holders, at, foreign and math.max(wait, 0) or 0}
	for i = 4, #mine, 2 do
		if mine[i] > window then
			said[#said + 1] = mine[i]
			said[#said + 1] = mine[i + 1]
		end
	end
	return said, lost
end

-- notes takes up what is said, drops what is over, and returns all that stand, and what
-- of that is new.
local function notes(key, count)
	local fields = call('HGETALL', key)
	local known, changed, fresh = {}, {}, {}
	for i = 1, #fields, 2 do
		local ok, n = pcall(cmsgpack.unpack, fields[i + 1])
		if ok and type(n) == 'table' and number(n[1]) and number(n[2]) and type(n[3]) == 'string' and n[1] > now then
			known[fields[i]] = n
		else
			redis.call('HDEL', key, fields[i])
		end
	end
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
			changed[name] = true
			fresh[#fresh + 1] = {name, text(left), text(n), said}
		end
	end
	local list, last = {}, now
	for name, n in next, known do
		if changed[name] then redis.call('HSET', key, name, cmsgpack.pack(n)) end
		last = math.max(last, n[1])
		list[#list + 1] = {name, n[1] - now, n[2], n[3]}
	end
	if #fresh > 0 then keep(key, last) end
	return list, fresh
end

-- told is what is published of a site: its name and its new notes, each field after its
-- length, or the name alone if that is too long.
local function told(site, fresh)
	local parts = {'@', #site .. ':' .. site}
	for _, n in ipairs(fresh) do
		for _, field in ipairs(n) do parts[#parts + 1] = #field .. ':' .. field end
	end
	local all = table.concat(parts)
	if #all > 4096 then return site end
	return all
end

-- For which life of the data the batch is, and where what is.
local meant, fresh, who, site, channel, tag = take(), take(), take(), take(), take(), tonumber(take())
local asks = tonumber(take())
local life, began = lives(KEYS[3 + asks], channel)
local foreign = fresh ~= '1' and meant ~= life
local answers, lost = {}, false
for i = 1, asks do
	local key = KEYS[2 + i]
	local one, gone = answer(key, string.sub(key, tag + 1), KEYS[2], who, foreign, life, began)
	answers[i], lost = one, lost or gone
end
local list, changed = notes(KEYS[1], tonumber(take()))
if #changed > 0 then redis.call('PUBLISH', channel, told(site, changed)) end
if lost then redis.call('PUBLISH', channel, '!' .. site) end
return {life, now, answers, list}
