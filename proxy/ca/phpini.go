package ca

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// phpDir is the directory, beside a bundle, of settings for PHP, which reads the
// *.ini files of every directory that PHP_INI_SCAN_DIR lists.
const phpDir = "php"

// phpIni has PHP's curl extension and its streams trust a bundle.
func phpIni(bundleFile string) []byte {
	value := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`).Replace(bundleFile) + `"`
	return []byte("curl.cainfo = " + value + "\nopenssl.cafile = " + value + "\n")
}

// phpScanDirs is PHP_INI_SCAN_DIR with the directory for a bundle added. An empty
// entry is the directory that PHP is built with, which it reads when the variable
// is unset.
func phpScanDirs(bundleFile string) string {
	folder := filepath.Join(filepath.Dir(bundleFile), phpDir)
	dirs, set := os.LookupEnv("PHP_INI_SCAN_DIR")
	switch {
	case set && dirs == "": // PHP reads none
		return folder
	case slices.Contains(strings.Split(dirs, string(os.PathListSeparator)), folder):
		return dirs
	}
	return dirs + string(os.PathListSeparator) + folder
}
