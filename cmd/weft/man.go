package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/internal/refusal"
)

// newMan makes the command that writes the manual from the help texts. `make install` installs it.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:               "man FOLDER",
		Short:             "write manual pages, one for each command",
		Example:           "  weft man man1 && man ./man1/weft-train.1",
		Hidden:            true,
		ValidArgsFunction: cli.CompleteFolders,
		Args:              cli.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return refusal.Errorf("%s: %w; name another folder", args[0], err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			year := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // so that the pages are the same on any day
			if err := doc.GenManTree(root, &doc.GenManHeader{Title: "WEFT", Section: "1", Source: "weft " +
				version, Date: &year}, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: manual pages; man %[1]s/weft.1 shows the first\n",
				ui.Printable(args[0]))
			return nil
		},
	}
}
