package policy

import (
	"fmt"
	"strings"
)

// mostAmount of any unit is a petabyte, and far from overflowing.
const mostAmount = 1e15

// parseAmount reads an amount of requests or of what they cost.
func parseAmount(s string) (int64, error) { return parseCount(s, 1, mostAmount) }

// The least of a byte limit is what a short answer takes with its headers and the
// TLS around it.
const leastBytes = 4 * kib

// parseBytes reads an amount of bytes for a limit.
func parseBytes(s string) (int64, error) {
	size, err := ParseSize(s)
	switch {
	case err != nil:
		return 0, err
	case size < leastBytes:
		err = fmt.Errorf("%s is less than %s, in which no answer with its headers and TLS would fit", quote(s), leastBytes)
		if number, unit, _ := cutPart(s); strings.EqualFold(unit, "B") && digits(number) {
			err = fmt.Errorf("%w; did you mean %skB?", err, number)
		}
		return 0, err
	case size > mostAmount:
		return 0, fmt.Errorf("%s is more than %s", quote(s), Size(mostAmount))
	}
	return int64(size), nil
}

// parseConcurrency reads how many requests may be in flight, for which there is no window.
func parseConcurrency(s string) (int64, error) {
	if amount, _, found := cutWindow(s); found && digits(amount) {
		return 0, fmt.Errorf("%s has a time, but concurrency is how many are in flight at once; write requests: %s, or concurrency: %s", quote(s), s, amount)
	}
	return parseAmount(s)
}

// amountNode is what parseAmount reads.
func amountNode() node {
	return node{"type": []string{"integer", "string"}, "minimum": 1, "maximum": int64(mostAmount), "pattern": `^\s*` + positivePattern + `\s*$`}
}

// bytesNode is what parseBytes reads.
func bytesNode() node { return sizeNode() }
