package ca

import (
	"bytes"
	"cmp"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// noProxy are the hosts that clients reach directly where NO_PROXY is not set: this machine itself.
const noProxy = "localhost,127.0.0.1,::1"

// addingVariables name a file of certificates to trust in addition to the client's own.
var addingVariables = []string{"NODE_EXTRA_CA_CERTS", "DENO_CERT"}

// replacingVariables name a file that replaces the certificates that a client trusts.
var replacingVariables = []string{
	"SSL_CERT_FILE",                    // OpenSSL and what is built on it, Go, Ruby, PHP, rustls, httpx, aiohttp
	"REQUESTS_CA_BUNDLE",               // Python requests, Tweepy
	"CURL_CA_BUNDLE",                   // curl
	"PERL_LWP_SSL_CA_FILE",             // Perl
	"GIT_SSL_CAINFO",                   // git
	"AWS_CA_BUNDLE",                    // AWS command line and SDKs
	"PIP_CERT",                         // pip
	"CARGO_HTTP_CAINFO",                // cargo
	"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", // gRPC's C core
	"HTTPLIB2_CA_CERTS",                // Python httplib2, older Google clients
	"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
	"NIX_SSL_CERT_FILE",
	"HEX_CACERTS_PATH",        // Elixir
	"JULIA_SSL_CA_ROOTS_PATH", // Julia
	"BUNDLE_SSL_CA_CERT",      // Bundler
}

// SetsTrust reports whether a variable says which certificates a program trusts.
func SetsTrust(name string) bool {
	switch name {
	case "SSL_CERT_DIR", "GIT_SSL_CAPATH", "WGETRC", "PHP_INI_SCAN_DIR", "JAVA_TOOL_OPTIONS", "NODE_TLS_REJECT_UNAUTHORIZED":
		return true
	}
	return slices.Contains(addingVariables, name) || slices.Contains(replacingVariables, name)
}

// Env returns KEY=VALUE lines that make clients in any language use the proxy and trust the
// CA. proxyURL is like http://127.0.0.1:3128, with user and password if clients need them;
// the files are those of WriteBundle. Empty arguments are left out: without proxyURL the
// lines only set trust.
//
// A NO_PROXY of this process is kept, in both spellings, and for Java. Java's options are added to JAVA_TOOL_OPTIONS of this process, and PHP's directory to
// PHP_INI_SCAN_DIR. Java programs print their options at the start, so they never contain a
// password.
func Env(proxyURL, extraFile, bundleFile string) []string {
	var env []string
	set := func(key, value string) { env = append(env, key+"="+value) }
	direct := noProxy
	for _, key := range []string{"no_proxy", "NO_PROXY"} {
		if value, given := os.LookupEnv(key); given {
			direct = value
		}
	}
	if proxyURL != "" {
		// curl and wget read only lower case for http, other clients only upper case.
		for _, key := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"} {
			set(key, proxyURL)
		}
		set("NO_PROXY", direct)
		set("no_proxy", direct)
		set("NODE_USE_ENV_PROXY", "1")
	}
	if extraFile != "" {
		for _, key := range addingVariables {
			set(key, extraFile)
		}
	}
	if bundleFile != "" {
		for _, key := range replacingVariables {
			set(key, bundleFile)
		}
		set("WGETRC", wgetrcFile(bundleFile, proxyURL != ""))
		set("PHP_INI_SCAN_DIR", phpScanDirs(bundleFile))
	}
	if java := javaOptions(proxyURL, direct, bundleFile); len(java) > 0 {
		set("JAVA_TOOL_OPTIONS", withJava(os.Getenv("JAVA_TOOL_OPTIONS"), java))
	}
	return env
}

func javaOptions(proxyURL, direct, bundleFile string) []string {
	var options []string
	if proxy, err := url.Parse(proxyURL); err == nil && proxy.Hostname() != "" {
		port := cmp.Or(proxy.Port(), "80")
		for _, scheme := range []string{"http", "https"} {
			options = append(options, "-D"+scheme+".proxyHost="+proxy.Hostname(), "-D"+scheme+".proxyPort="+port)
		}
		options = append(options, "-Dhttp.nonProxyHosts="+javaQuoted(javaHosts(direct)))
		if proxy.User != nil {
			// Java does not send a password to an http proxy for https unless
			// this list is emptied.
			options = append(options, "-Djdk.http.auth.tunneling.disabledSchemes=")
		}
	}
	if bundleFile != "" {
		options = append(options,
			"-Djavax.net.ssl.trustStore="+javaQuoted(storeFile(bundleFile)),
			"-Djavax.net.ssl.trustStoreType=jks",
			"-Djavax.net.ssl.trustStorePassword="+storePassword)
	}
	return options
}

// javaHosts returns the hosts of a NO_PROXY as Java wants them. Java knows no networks, such as 10.0.0.0/8.
func javaHosts(direct string) string {
	var hosts []string
	for name := range strings.FieldsFuncSeq(direct, func(c rune) bool { return c == ',' || c == ' ' }) {
		switch addr, err := netip.ParseAddr(name); {
		case err != nil:
			name = strings.TrimPrefix(strings.TrimPrefix(name, "*"), ".")
			hosts = append(hosts, cmp.Or(name, "*"), "*."+name)
		case addr.Is6():
			hosts = append(hosts, "["+name+"]")
		default:
			hosts = append(hosts, name)
		}
	}
	return strings.Join(hosts, "|")
}

// withJava adds options to existing ones unless they are present: repeated sourcing must
// not grow the line.
func withJava(there string, options []string) string {
	added := strings.Join(options, " ")
	switch {
	case there == "":
		return added
	case strings.HasSuffix(there, added):
		return there
	}
	return there + " " + added
}

// storePassword is the password of Java's own trust store. It protects no secret:
// certificates are public, and the digest made with it only detects damage.
const storePassword = "changeit"

// storeFile returns the path at which WriteBundle puts the Java key store beside a bundle.
func storeFile(bundleFile string) string {
	return strings.TrimSuffix(bundleFile, filepath.Ext(bundleFile)) + filepath.Ext(storeName)
}

// phpDir is the directory, beside a bundle, of settings for PHP, which reads the
// *.ini files of every directory that PHP_INI_SCAN_DIR lists.
const phpDir = "php"

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

// javaQuoted keeps spaces in a value together. The launcher splits at spaces,
// and knows both kinds of quotes but no escapes.
func javaQuoted(s string) string {
	switch {
	case !strings.ContainsAny(s, " \t\n'\""):
		return s
	case !strings.Contains(s, `"`):
		return `"` + s + `"`
	}
	return "'" + s + "'"
}

// addedMarker begins the lines that abide adds, followed by the path of the copied file.
const addedMarker = "# Added by abide to a copy of "

var (
	// wget ignores case, "-" and "_" in the names of settings.
	certificateSetting = regexp.MustCompile(`(?im)^[ \t]*ca[-_]?certificate[ \t]*=[ \t]*(.*?)[ \t\r]*$`)
	proxySetting       = regexp.MustCompile(`(?im)^[ \t]*(?:https?[-_]?proxy|use[-_]?proxy)[ \t]*=.*\n?`)
)

// wgetrc is a file of wget's settings.
type wgetrc struct {
	path string
	text []byte
	err  error // why the file could not be read
}

// userWgetrc is the file that wget reads without abide. A file written by abide stands for
// the file it was copied from. abide's files in the directories own may be missing.
func userWgetrc(files []string) wgetrc {
	path := ""
	if home, err := os.UserHomeDir(); err == nil && home != "" {
		path = filepath.Join(home, ".wgetrc")
	}
	named := os.Getenv("WGETRC")
	if named == "" {
		return readWgetrc(path)
	}
	rc := readWgetrc(named)
	if rc.err != nil && slices.Contains(files, filepath.Dir(named)) {
		return readWgetrc(path)
	}
	if copied, lines, found := bytes.Cut(rc.text, []byte(addedMarker)); found {
		from, _, _ := strings.Cut(string(lines), "\n")
		if rc = readWgetrc(from); rc.err != nil {
			rc.text = copied
		}
	}
	return rc
}

func readWgetrc(path string) wgetrc {
	if path == "" {
		return wgetrc{}
	}
	text, err := readRegular(path, maxFile)
	return wgetrc{path: path, text: text, err: err}
}

// certificates is the file that the setting ca_certificate names, "" for none.
func (rc wgetrc) certificates() string {
	found := certificateSetting.FindAllSubmatch(rc.text, -1)
	if len(found) == 0 {
		return ""
	}
	return string(found[len(found)-1][1])
}

// with is the text with a bundle as the certificates to trust. The last of two equal
// settings counts.
func (rc wgetrc) with(bundleFile string) []byte {
	var b bytes.Buffer
	b.Write(rc.text)
	if len(rc.text) > 0 && !bytes.HasSuffix(rc.text, []byte("\n")) {
		b.WriteByte('\n')
	}
	b.WriteString(addedMarker + rc.path + "\n")
	b.WriteString("ca_certificate = " + bundleFile + "\n")
	return b.Bytes()
}

// wgetrcFile returns the path at which WriteBundle puts the settings for wget beside a bundle.
// wget has no variable for certificates, but WGETRC names the file that it reads instead of
// ~/.wgetrc. abide writes two: one with all of the user's settings, and one without proxy
// settings, which would override http_proxy and https_proxy.
func wgetrcFile(bundleFile string, proxied bool) string {
	name := "wgetrc"
	if proxied {
		name = "wgetrc-proxy"
	}
	return filepath.Join(filepath.Dir(bundleFile), name)
}
