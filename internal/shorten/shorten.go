// Package shorten cuts texts.
package shorten

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
