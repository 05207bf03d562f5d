// Package shard says which of n crawlers owns a URL, so that a fleet divides its work
// without talking: no list is kept, and everybody who knows n gets the same answer.
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

// Owner is which of n parts a key belongs to, from 0 on. Where there is one part, or
// none, it has all.
func Owner(key string, n int) int {
	return jump(hash(key), n)
}

func hash(key string) uint64 {
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(sum[:8])
}

// jump is where the last jump lands that does not go beyond n. The quotient is that of
// the paper, bit by bit, in the floating point that every language has.
func jump(h uint64, n int) int {
	at, next := int64(0), int64(0)
	for next < int64(n) {
		at = next
		h = h*2862933555777941757 + 1
		next = int64(float64(at+1) * (float64(1<<31) / float64(h>>33+1)))
	}
	return int(at)
}
