package policy

import (
	"fmt"
	"strconv"
	"strings"
)

// Reserve is what stays unspent of every learned limit, in units or in percent.
type Reserve struct {
	Units   int64
	Percent float64
}

// String is the reserve as it is written, "0" for none.
func (r Reserve) String() string {
	if r.Percent > 0 {
		return strconv.FormatFloat(r.Percent, 'f', -1, 64) + "%"
	}
	return strconv.FormatInt(r.Units, 10)
}

// parseReserve reads units, 50, or a part, 1%.
func parseReserve(s string) (Reserve, error) {
	if part, ok := strings.CutSuffix(s, "%"); ok {
		n, err := scaled(part, 1e6)
		if err != nil || n >= 100e6 {
			return Reserve{}, fmt.Errorf("%s is not a part of less than 100%%", quote(s))
		}
		percent, _ := strconv.ParseFloat(part, 64)
		return Reserve{Percent: percent}, nil
	}
	n, err := parseCount(s, 0, 1e15)
	return Reserve{Units: n}, err
}

// reserveNode is what parseReserve reads.
func reserveNode() node {
	n := node{"type": []string{"integer", "string"}, "minimum": 0, "maximum": int64(1e15)}
	n["pattern"] = `^(?:` + wholePattern + `|` + decimalPattern + `%)$`
	return n.suchAs(50, "1%")
}
