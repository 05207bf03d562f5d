// Package policy holds the operator's configuration: the types of the configuration
// file, its strict loading, and the matching of a request to a rule. It is
// pure: it opens no connection, starts nothing and keeps no state. A Policy
// never changes after Load, so any number of goroutines may share one; a reload
// loads another and swaps the pointer.
//
// The usual call:
//
//	p, err := policy.Load(policy.Source{Path: "abide.yaml", Environ: os.Environ()})
//	if err != nil {
//		return err // a Faults: every fault at once, each with file and line
//	}
//	target, err := policy.ParseTarget("https", "API.Example.com:8443")
//	match := p.Match(target) // match.Site shares one budget, match.Rule may be nil
//
// # Layers
//
// The files of this package need each other in one direction. From the bottom up:
//
//   - values: hosts, targets, durations, sizes, numbers, words, routes, suggestions
//   - sections: Access, Egress, Intercept, Limit, Pool, Site, Store and the like
//   - Policy, which is made of the sections, and the table of scalar keys (key.go)
//   - questions to a Policy: Match, Interception, Warnings, Parts, Explain, Changes
//   - loading.go: a run of Load and its faults; decode.go: the reader of YAML nodes; the
//     other decode files: a reader for each section
//   - Load, LoadAdmin and ParseLimits
//
// # How values are read
//
// A value means the same in the file, in the environment and as a flag, quoted
// or not. docs/configuration.md has durations, sizes, hosts, secrets and lists. Besides:
//
//   - Whole numbers are digits, with or without underscores between thousands:
//     900, 10_000. Refused: 1e3, 1,000, 0x10, 0123, 5.0, +5, -1, yes, null, NaN,
//     .inf; and 0 where it makes no sense (a limit of 0 is not "no limit", leave the
//     key out for that).
//   - Rates are an amount per time: 2/s, 0.2/s, 100/m, 5000/h, 3/10s.
//   - Switches are true or false, on or off. yes, no, 1 and 0 are refused.
//   - Inside of a longer URL a ${NAME} is taken literally, so a password needs no
//     percent-encoding. A secret that comes from the environment or from a flag is
//     taken as it is.
//   - Maps are name=value,name=value in a variable or a flag.
//   - Paths: ~/ is the home directory; another relative path starts at the file,
//     or at the working directory when it comes from a variable or a flag.
//   - Every scalar key has a variable, ABIDE_ and the key in capitals:
//     ABIDE_LOG_LEVEL is log.level. ABIDE_ADMIN is admin.listen. A variable with
//     that prefix that nothing reads is refused, except for those that Kubernetes
//     adds beside a service called abide.
//
// An anchor and its alias (&a and *a) may share a value between rules. Merge
// keys (<<), tags (!!int) and second documents are refused.
package policy
