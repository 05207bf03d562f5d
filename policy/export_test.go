package policy

// What the tests of package jobfile need of the tests of this package. They stand in package
// policy_test, since package jobfile imports this one.
var (
	Compiled         = compiled
	Disagreement     = disagreement
	CheckKeys        = checkKeys
	CheckAnnotations = checkAnnotations
)
