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

// Token is one credential of a pool. It is immutable; its state belongs to the pool.
// However a token is printed or encoded, it shows as its label.
type Token struct {
	label         string
	key           string
	stable        string
	labelIsNumber bool // the source has no label for it
	secret        policy.Secret
	id            id
	state         *state
}

// Label is the token's name for operators. No two tokens of a pool have the same label.
func (t *Token) Label() string { return t.label }

// Key names the token's meters in this process: the label at its first load, made unique. A
// reload that changes the label keeps the key. For names across processes see Stable.
func (t *Token) Key() string { return t.key }

// Stable names the secret in every process that has it in a pool of this name. It is for
// stores and files and is never shown to users: by this name a guess of the secret could be
// confirmed.
func (t *Token) Stable() string { return t.stable }

// Budget is the key of the token's account: tokens of one account share one budget.
func (t *Token) Budget() string { return t.state.account.Load().key }

// fingerprint distinguishes secrets while this process runs.
func (t *Token) fingerprint() string { return t.id.String() }

func (t Token) String() string { return t.label }

// GoString implements %#v.
func (t Token) GoString() string { return fmt.Sprintf("%q", t.String()) }

// Format implements every other verb.
func (t Token) Format(f fmt.State, verb rune) { formatName(f, verb, t.String()) }

// MarshalText implements JSON, XML, YAML and every other text encoding.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// formatName prints a value that holds secrets as its name.
func formatName(f fmt.State, verb rune, name string) {
	if verb == 'q' || f.Flag('#') {
		name = fmt.Sprintf("%q", name)
	}
	_, _ = io.WriteString(f, name)
}

// stable hashes a secret to its name, the same in every process.
func stable(pool string, secret policy.Secret) string {
	h := sha256.New()
	_, _ = io.WriteString(h, "abide: the name of a token\x00")
	_, _ = io.WriteString(h, pool)
	_, _ = h.Write([]byte{0})
	_, _ = io.WriteString(h, secret.Reveal())
	return hex.EncodeToString(h.Sum(nil)[:stableBytes])
}

const stableBytes = 16

// id is a secret's keyed hash. Tokens with the same id have the same secret.
type id [sha256.Size]byte

// String is a prefix of the hash, long enough to distinguish tokens.
func (i id) String() string { return hex.EncodeToString(i[:4]) }

// processKey is random for each process, so hashes cannot be looked up elsewhere.
var processKey = func() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return key
}()

func hashOf(secret policy.Secret) id {
	h := hmac.New(sha256.New, processKey)
	_, _ = io.WriteString(h, secret.Reveal())
	var sum id
	h.Sum(sum[:0])
	return sum
}

// byLabel sorts tokens by label.
func byLabel(a, b *Token) int { return cmp.Compare(a.label, b.label) }
