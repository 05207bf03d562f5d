package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
)

// Rows of counts, documents and notes have a checksum of all fields, since SQLite has none:
// a flipped bit would make a wrong amount or time. A row without a checksum is of version 1
// and accepted; its next write adds one. A row with a wrong checksum is moved to the table
// aside.

var castagnoliTable = crc32.MakeTable(crc32.Castagnoli)

// checksumBuffers are buffers for checksum, which is called for very many rows at a start.
var checksumBuffers = sync.Pool{New: func() any { return new([]byte) }}

// checksum is the checksum of a row's fields in order: texts, bytes and numbers.
func checksum(fields ...any) int64 {
	scratch := checksumBuffers.Get().(*[]byte)
	defer checksumBuffers.Put(scratch)
	b := (*scratch)[:0]
	for _, one := range fields {
		switch v := one.(type) {
		case string:
			b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
		case []byte:
			b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
		case int64:
			b = binary.AppendVarint(b, v)
		default:
			panic(fmt.Sprintf("the checksum of a %T", one))
		}
	}
	*scratch = b
	return int64(crc32.Checksum(b, castagnoliTable))
}

// countSum is the checksum of a row of counts.
func countSum(site, key, instance string, seq, ahead, at int64, state []byte) int64 {
	return checksum("count", site, key, instance, seq, ahead, at, state)
}

// documentSum is the checksum of a row of documents. It stays valid when both times are
// moved because the clock was set back.
func documentSum(kind, key string, value []byte, at, until int64) int64 {
	return checksum("document", kind, key, value, lifetimeOf(at, until))
}

// noteSum is the checksum of a row of notes.
func noteSum(site, key string, at, until, n int64, text string) int64 {
	return checksum("note", site, key, lifetimeOf(at, until), n, text)
}

// lifetimeOf is how long a row is valid in microseconds, -1 for ever.
func lifetimeOf(at, until int64) int64 {
	if until == 0 {
		return -1
	}
	return until - at
}
