// Package shard says which of n crawlers owns a URL, so that a fleet divides its work
// without communication: no list is needed, and every process that knows n gets the same answer.
//
//	key, err := shard.Key("HTTP://Example.com:80/a?b=c", shard.URL) // http://example.com/a?b=c
//	owner := shard.Owner(key, 100)                                   // 0 to 99
//
// A key is hashed by SHA-256, of which the first 8 bytes count: every language has it
// in its library, no two write it differently, and it spreads keys that differ in one
// digit as well as any others. The owner is found by jump consistent hash (Lamping and
// Veach, 2014): each part has the same share, and when n becomes n+1, one key in n+1
// moves, always to the new part. There is no state, and it is five lines in any
// language; docs/fleet.md has them in Python.
package shard

import (
	"crypto/sha256"
	"encoding/binary"
)

// Owner is the part, from 0 to n-1, that a key belongs to. With n of 1 or less it is 0.
func Owner(key string, n int) int {
	return jump(hash(key), n)
}

func hash(key string) uint64 {
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(sum[:8])
}

// jump is the last jump below n. The division is exactly that of the paper, in floating
// point as in every language.
func jump(h uint64, n int) int {
	at, next := int64(0), int64(0)
	for next < int64(n) {
		at = next
		h = h*2862933555777941757 + 1
		next = int64(float64(at+1) * (float64(1<<31) / float64(h>>33+1)))
	}
	return int(at)
}
