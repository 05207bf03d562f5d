package redact

import "strings"

// Frames keeps the function names and lines of a stack, and drops the arguments, which are
// only pointers.
func Frames(stack []byte) string {
	var out []string
	for line := range strings.SplitSeq(string(stack), "\n") {
		if strings.HasPrefix(line, "\t") {
			at, _, _ := strings.Cut(strings.TrimSpace(line), " +0x")
			out = append(out, at)
		}
	}
	return strings.Join(out, " < ")
}
