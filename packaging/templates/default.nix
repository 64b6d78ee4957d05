# The static binary of the release: nix-env --install --file default.nix
{ pkgs ? import <nixpkgs> { } }:

let
  sources = {
    # @EACH@
    "@MACHINE@-linux" = {
      url = "@REPOSITORY@/releases/download/v@VERSION@/provost-@VERSION@-@TARGET@.tar.gz";
      sha256 = "@SHA256@";
    };
    # @END@
  };
in
pkgs.stdenvNoCC.mkDerivation {
  pname = "provost";
  version = "@VERSION@";
  src = pkgs.fetchurl sources.${pkgs.stdenv.hostPlatform.system};
  nativeBuildInputs = [ pkgs.makeWrapper ];
  installPhase = ''
    install -Dm755 provost $out/bin/provost
    cp -r share $out/share
    # git is needed; bubblewrap gives the strongest isolation level.
    wrapProgram $out/bin/provost --suffix PATH : ${pkgs.lib.makeBinPath [ pkgs.git pkgs.bubblewrap ]}
  '';
  meta = {
    description = "@SUMMARY@";
    homepage = "@REPOSITORY@";
    license = with pkgs.lib.licenses; [ mit asl20 ];
    platforms = builtins.attrNames sources;
    mainProgram = "provost";
  };
}
