package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes.
type Size int64

// Sizes, as they are written.
const (
	kib Size = 1 << 10
	mib Size = 1 << 20
	gib Size = 1 << 30
)

// sizes are the units of sizes, larger ones first. Letters of either case mean the
// same: a small b is a byte here, and never a bit.
var sizes = []unit{
	{1 << 40, []string{"TiB"}},
	{1e12, []string{"TB"}},
	{1 << 30, []string{"GiB"}},
	{1e9, []string{"GB"}},
	{1 << 20, []string{"MiB"}},
	{1e6, []string{"MB"}},
	{1 << 10, []string{"KiB"}},
	{1e3, []string{"kB"}},
	{1, []string{"B", "byte", "bytes"}},
}

// ParseSize reads 500B, 1kB, 1MB = 10^6 bytes, 1MiB = 2^20 bytes, and the same as
// 1mb or 1 MB.
func ParseSize(s string) (Size, error) {
	switch s = strings.TrimSpace(s); {
	case s == "":
		return 0, errors.New("has no value; write a size such as 1MiB")
	case strings.Trim(s, "0123456789._") == "":
		return 0, fmt.Errorf("%s needs a unit, such as %sB or %sMiB", quote(s), s, s)
	}
	number, name, more := cutPart(s)
	i := unitAt(sizes, name)
	switch {
	case number != "" && more == "" && i < 0 && unitAt(sizes, name+"B") >= 0:
		return 0, fmt.Errorf("%s is not a size; did you mean %q?", quote(s), number+name+"B")
	case number == "" || more != "" || i < 0:
		return 0, fmt.Errorf("%s is not a size; write a number and a unit, such as 500B, 64KiB, 1MB or 1.5GB", quote(s))
	}
	n, err := scaled(number, sizes[i].size)
	if err != nil {
		return 0, fmt.Errorf("%s %w", quote(s), err)
	}
	if n == 0 {
		return 0, fmt.Errorf("%s is no bytes at all", quote(s))
	}
	return Size(n), nil
}

// String is the size as it would be written.
func (s Size) String() string {
	if s == 0 {
		return "0B"
	}
	best := strconv.FormatInt(int64(s), 10) + "B"
	for _, u := range sizes {
		if int64(s)%u.size == 0 {
			if text := strconv.FormatInt(int64(s)/u.size, 10) + u.names[0]; len(text) < len(best) {
				best = text
			}
		}
	}
	return best
}

// sizePattern matches what ParseSize reads.
func sizePattern() string { return decimalPattern + ` *` + unitPattern(sizes) }

// sizeNode is what ParseSize reads.
func sizeNode() node {
	return patternNode(`^\s*`+sizePattern()+`\s*$`).suchAs("64KiB", "1MB").shared("size")
}
