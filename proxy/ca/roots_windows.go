package ca

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

func systemRoots() ([]byte, error) {
	name, err := windows.UTF16PtrFromString("ROOT")
	if err != nil {
		return nil, err
	}
	store, err := windows.CertOpenSystemStore(0, name)
	if err != nil {
		return nil, fmt.Errorf("reading the system's root certificates: %w", err)
	}
	defer windows.CertCloseStore(store, 0)
	var b bytes.Buffer
	for cert := (*windows.CertContext)(nil); ; {
		cert, err = windows.CertEnumCertificatesInStore(store, cert)
		if errors.Is(err, windows.Errno(windows.CRYPT_E_NOT_FOUND)) || cert == nil {
			return b.Bytes(), nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the system's root certificates: %w", err)
		}
		der := unsafe.Slice(cert.EncodedCert, cert.Length)
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			return nil, fmt.Errorf("reading the system's root certificates: %w", err)
		}
	}
}
