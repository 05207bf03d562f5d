//go:build unix && !darwin

package ca

import "os"

// rootFiles lists the files in which distributions keep all roots; the first that exists
// counts.
var rootFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Arch, Alpine, Gentoo
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL
	"/etc/pki/tls/certs/ca-bundle.crt",                  // older RHEL
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/ssl/cert.pem",                                 // OpenBSD, FreeBSD
	"/usr/local/share/certs/ca-root-nss.crt",            // FreeBSD's port
	"/etc/certs/ca-certificates.crt",                    // Solaris
}

func systemRoots() ([]byte, error) {
	for _, one := range rootFiles {
		if text, err := os.ReadFile(one); err == nil {
			return text, nil
		}
	}
	certs, _, err := readCertificates("/etc/ssl/certs", maxUserRoots)
	return encodeCertificates(certs), err
}
