// Package shorten cuts texts, or puts hashes in their places.
package shorten

import (
	"crypto/sha256"
	"encoding/hex"
)

// Hash returns the first n bytes of the SHA-256 hash of a text, in hexadecimal.
func Hash[T ~string | ~[]byte](n int, text T) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:n])
}

// To returns a text cut to at most so many characters. One that is cut ends with "…".
func To(most int, s string) string {
	if most < 1 {
		return ""
	}
	n, end := 0, 0
	for i := range s {
		if n++; n == most {
			end = i
		}
		if n > most {
			return s[:end] + "…"
		}
	}
	return s
}
