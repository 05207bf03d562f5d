package policy

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"strings"
)

// Secret is a credential. However it is printed, logged or encoded it shows as
// [redacted], or as nothing when it is empty; only Reveal gives it away. The zero
// value is no secret. Compare with Equal: == only tells copies of one secret.
type Secret struct {
	value *string // a pointer, since fmt prints the fields for %p whatever Format says
}

// NewSecret makes a secret of s.
func NewSecret(s string) Secret {
	if s == "" {
		return Secret{}
	}
	return Secret{&s}
}

// Reveal returns the secret, for the one place that sends it.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Empty tells whether the secret is empty.
func (s Secret) Empty() bool { return s.value == nil }

// Equal compares in a time that does not depend on the secret or its length.
func (s Secret) Equal(other string) bool {
	a, b := sha256.Sum256([]byte(s.Reveal())), sha256.Sum256([]byte(other))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && !s.Empty()
}

func (s Secret) String() string {
	if s.Empty() {
		return ""
	}
	return "[redacted]"
}

// Format covers every verb. %q and what has a # are in quotation marks.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'q' || f.Flag('#') {
		_, _ = fmt.Fprintf(f, "%q", s.String())
		return
	}
	_, _ = io.WriteString(f, s.String())
}

// fileSuffix ends the name of a variable that names a file with a secret.
const fileSuffix = "_FILE"

// LookupSecret returns the secret of a variable, or else that of the file which the variable with
// _FILE behind its name names, without line ends at its end. An error does not have the path: it
// may be a secret that was put into the wrong variable.
func LookupSecret(lookup func(string) (string, bool), name string) (value string, ok bool, err error) {
	value, ok = lookup(name)
	path, named := lookup(name + fileSuffix)
	switch {
	case !named || path == "":
		return value, ok, nil
	case value != "":
		return "", false, fmt.Errorf("%s and %s%s are both set; unset one", name, name, fileSuffix)
	}
	data, err := readFile(path)
	switch {
	case err != nil:
		return "", false, fmt.Errorf("%s%s names a file that cannot be read: %w", name, fileSuffix, err)
	case len(data) > maxFile:
		return "", false, fmt.Errorf("%s%s names a file of more than %s", name, fileSuffix, Size(maxFile))
	}
	if value = strings.TrimRight(string(data), "\r\n"); value == "" {
		return "", false, fmt.Errorf("%s%s names a file that is empty; write the secret into it", name, fileSuffix)
	}
	return value, true, nil
}

// MarshalText covers JSON, YAML, XML and whatever else asks for text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
