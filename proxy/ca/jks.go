package ca

import (
	"bytes"
	"crypto/sha1"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"time"
	"unicode/utf16"
)

// storePassword is the password of Java's own trust store. It protects no secret:
// certificates are public, and the digest made with it only detects damage.
const storePassword = "changeit"

// javaStore is a key store of trusted certificates in Java's JKS format, which every
// version of Java reads. Java cannot be configured to read PEM.
func javaStore(trusted []*x509.Certificate, now time.Time) []byte {
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.BigEndian, v) } // a Buffer takes everything
	text := func(s string) {
		put(uint16(len(s)))
		b.WriteString(s)
	}
	put(uint32(0xFEEDFEED))
	put(uint32(2)) // version
	put(uint32(len(trusted)))
	for i, one := range trusted {
		put(uint32(2)) // a trusted certificate, not a key
		alias := "abide"
		if i > 0 {
			alias = fmt.Sprintf("root-%d", i)
		}
		text(alias)
		put(now.UnixMilli())
		text("X.509")
		put(uint32(len(one.Raw)))
		b.Write(one.Raw)
	}
	digest := sha1.New()
	for _, unit := range utf16.Encode([]rune(storePassword)) {
		digest.Write([]byte{byte(unit >> 8), byte(unit)})
	}
	digest.Write([]byte("Mighty Aphrodite")) // Java's salt
	digest.Write(b.Bytes())
	return digest.Sum(b.Bytes())
}
