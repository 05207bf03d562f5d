package tokens

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/abide-proxy/abide/policy"
)

// Token is one credential of a pool. It does not change; what is known of it does,
// and is the pool's. However it is printed or encoded it shows as its label.
type Token struct {
	label    string
	key      string
	stable   string
	numbered bool // nobody gave it a label
	secret   policy.Secret
	id       id
	state    *state
}

// Label is what people call it. No two tokens of a pool have the same.
func (t *Token) Label() string { return t.label }

// Key is the label that it had when it was first loaded, or something like it. A
// reload that renames it leaves its key, so meters are found by it, and no other
// secret gets it. It is this process's: see Stable.
func (t *Token) Key() string { return t.key }

// Stable names the secret in every process that has it in a pool of this name. It is
// for stores and files. Nobody is shown it: who can guess a secret could find out by
// it that he was right.
func (t *Token) Stable() string { return t.stable }

// Budget is the key that it shares with its twins: tokens of one account have one
// budget.
func (t *Token) Budget() string { return t.state.account.Load().key }

// Fingerprint tells one secret from another while this process runs, and nothing
// more.
func (t *Token) Fingerprint() string { return t.id.String() }

func (t Token) String() string { return t.label }

// GoString covers %#v.
func (t Token) GoString() string { return fmt.Sprintf("%q", t.String()) }

// Format covers every other verb.
func (t Token) Format(f fmt.State, verb rune) { show(f, verb, t.String()) }

// MarshalText covers JSON, XML, YAML and whatever else asks for text.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// show prints a thing that holds secrets as its name.
func show(f fmt.State, verb rune, name string) {
	if verb == 'q' || f.Flag('#') {
		name = fmt.Sprintf("%q", name)
	}
	_, _ = io.WriteString(f, name)
}

// stable is a secret's one-way name, the same in every process.
func stable(pool string, secret policy.Secret) string {
	h := sha256.New()
	_, _ = io.WriteString(h, "abide: the name of a token\x00")
	_, _ = io.WriteString(h, pool)
	_, _ = h.Write([]byte{0})
	_, _ = io.WriteString(h, secret.Reveal())
	return hex.EncodeToString(h.Sum(nil)[:stableBytes])
}

const stableBytes = 16

// id is a secret's keyed hash. Tokens are the same if theirs are.
type id [sha256.Size]byte

// String is a part of it that is long enough to tell tokens apart.
func (i id) String() string { return hex.EncodeToString(i[:4]) }

// ownKey is this process's alone, so what it hashes cannot be looked up.
var ownKey = func() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return key
}()

func identify(secret policy.Secret) id {
	h := hmac.New(sha256.New, ownKey)
	_, _ = io.WriteString(h, secret.Reveal())
	var sum id
	h.Sum(sum[:0])
	return sum
}

// labelled orders tokens for people.
func labelled(a, b *Token) int { return cmp.Compare(a.label, b.label) }
