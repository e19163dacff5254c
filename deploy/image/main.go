// Command image builds the OCI image of zae-limiter, for every platform, without a base and without Docker. The same
// commit gives the same digest (ADR 067).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	root := flag.String("root", "..", "`folder` of the repository")
	out := flag.String("out", "../bin/image", "`folder` for the layout of the image; an earlier layout is replaced")
	platforms := flag.String("platforms", "amd64,arm64", "`architectures` of Linux, with commas")
	flag.Parse()
	b := builder{root: *root, epoch: os.Getenv("SOURCE_DATE_EPOCH"), environment: os.Environ(), log: os.Stderr}
	digest, err := b.build(context.Background(), *out, strings.Split(*platforms, ","))
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(digest)
}
