package policy

// Rules are what the operator wrote about sites and their pools of tokens, and what
// holds for all other sites.
type Rules struct {
	Defaults Unnamed
	Pools    []Pool
	Sites    []Site

	index index // of Sites, by host
}

// Unnamed is what holds for sites that no rule names.
type Unnamed struct {
	Limits []Limit
	Learn  bool
}
