class Provost < Formula
  desc "@SUMMARY@"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

  # @EACH@
  on_@BREW@ do
    url "@REPOSITORY@/releases/download/v@VERSION@/provost-@VERSION@-@TARGET@.tar.gz"
    sha256 "@SHA256@"
  end
  # @END@

  def install
    bin.install "provost"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/provost"
    zsh_completion.install "share/zsh/vendor-completions/_provost"
    fish_completion.install "share/fish/vendor_completions.d/provost.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/provost --version")
  end
end
