//go:build race

package policy

// raced tells whether the race detector watches. It drops what sync.Pool keeps at random.
const raced = true
