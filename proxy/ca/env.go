package ca

import (
	"cmp"
	"net/url"
	"os"
	"slices"
	"strings"
)

// noProxy are the hosts that clients reach directly: this machine itself.
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
// Java's options are added to JAVA_TOOL_OPTIONS of this process, and PHP's directory to
// PHP_INI_SCAN_DIR. Java programs print their options at the start, so they never contain a
// password.
func Env(proxyURL, extraFile, bundleFile string) []string {
	var env []string
	set := func(key, value string) { env = append(env, key+"="+value) }
	if proxyURL != "" {
		// curl and wget read only lower case for http, other clients only upper case.
		for _, key := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"} {
			set(key, proxyURL)
		}
		set("NO_PROXY", noProxy)
		set("no_proxy", noProxy)
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
	if java := javaOptions(proxyURL, bundleFile); len(java) > 0 {
		set("JAVA_TOOL_OPTIONS", withJava(os.Getenv("JAVA_TOOL_OPTIONS"), java))
	}
	return env
}

func javaOptions(proxyURL, bundleFile string) []string {
	var options []string
	if proxy, err := url.Parse(proxyURL); err == nil && proxy.Hostname() != "" {
		port := cmp.Or(proxy.Port(), "80")
		for _, scheme := range []string{"http", "https"} {
			options = append(options, "-D"+scheme+".proxyHost="+proxy.Hostname(), "-D"+scheme+".proxyPort="+port)
		}
		options = append(options, "-Dhttp.nonProxyHosts="+javaQuoted("localhost|127.*|[::1]"))
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
