# Moves fields of one structure of Ruby's private header: those named by `moved` (or a new one, without it) come to stand
# before the field `before`.  awk -v structure=NAME -v before=LINE [-v moved=LINE|LINE] -f shift_header.awk HEADER
BEGIN {
  if (moved == "") moved = "void *nf_of_another_release;"
  else fields = split(moved, lines, "|")
  for (i = 1; i <= fields; i++) wanted[lines[i]] = 1
  gsub(/\|/, " ", moved)
}
{
  line = $0
  gsub(/^[ \t]+|[ \t]+$/, "", line)
}
line ~ "^(typedef )?struct " structure " [{]$" { inside = 1 }
inside && line == before { print moved; placed++ }
inside && line in wanted { taken++; next }
inside && /^}/ { inside = 0 }
{ print }
END { exit !(placed == 1 && taken == fields) }
