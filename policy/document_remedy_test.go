package policy

import "testing"

func TestWellKnownTrapsOfYAMLAreToldWithTheirRemedy(t *testing.T) {
	for text, want := range map[string]string{
		"sites:\n  - host: *.example.com\n":                                `abide.yaml:2: is not valid YAML: write "*.example.com" in quotes`,
		"sites:\n  - host: [a.test, *.b.example.com:8443]\n":               `abide.yaml:2: is not valid YAML: write "*.b.example.com:8443" in quotes`,
		"sites:\n  - host:\n      - a.test\n      - *.example.com # x\n":   `abide.yaml:4: is not valid YAML: write "*.example.com" in quotes`,
		"sites: [{host: *.example.com}]\n":                                 `abide.yaml:1: is not valid YAML: write "*.example.com" in quotes`,
		"sites:\n  - host: *\n":                                            `abide.yaml:2: is not valid YAML: write "*" in quotes`,
		"sites: [{host: *, robots: true}]\n":                               `write "*" in quotes`,
		"intercept: [*.example.com]\n":                                     `write "*.example.com" in quotes`,
		"admin: {token: *!x}\n":                                            "quote a value that begins with *",
		"pools:\n  a: {env: A, put: {token}}\n":                            `abide.yaml:2: pools.a.put: takes a single value; quote one that has braces, such as "{token}"`,
		"pools:\n  a:\n    put: Authorization: Bearer {token}\n":           `abide.yaml:3: is not valid YAML: mapping values are not allowed in this context; quote a value that has ": " in it, such as put: "Authorization: Bearer {token}"`,
		"pools: {a: {env: A, put: X-Api-Key: {token}}}\n":                  `quote a value that has braces in it, such as put: "Authorization: Bearer {token}"`,
		"sites: [{host: a.test, limits: [{path: /a/{id}}]}]\n":             "quote a value that has braces in it",
		"access:\n  clients:\n    - {name: @news, secret: x}\n":            "abide.yaml:3: is not valid YAML: found character that cannot start any token; quote a value that begins with @, % or a backtick",
		"access: {clients: [{name: `news}]}\n":                             "or a backtick",
		"admin: {token: !abc}\n":                                           "quote a value that begins with !",
		"sites:\n\t- host: a.test\n":                                       "abide.yaml:2: is indented with a tab; YAML wants spaces",
		"sites: [{host: a.test, limits: [{requests: 10,000, per: 1m}]}]\n": "write 10000 or 10_000 and not 10,000",
	} {
		refuse(t, text, want)
	}
}
