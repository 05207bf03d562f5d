package main

import (
	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/policy"
)

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration, for editors",
		Long: `Schema prints the JSON Schema of abide.yaml. An editor that knows the schema
completes keys, describes them and underlines what abide would refuse. A file
names its schema in a comment, as the file that "abide init" writes does:

  # yaml-language-server: $schema=abide.schema.json

"abide check" says more: a schema knows nothing of settings that contradict each
other, nor of files that are missing. "abide backfill --schema" prints the
schema of job files.`,
		Example: `  abide schema > abide.schema.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(policy.Schema())
			return err
		},
	}
}
