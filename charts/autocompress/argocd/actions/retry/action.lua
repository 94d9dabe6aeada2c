-- Any new value asks for a retry; the operator copies it to status.lastHandledRetryAt.
local os = require("os")
if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["autocompress.dev/retry-at"] = os.date("!%Y-%m-%dT%H:%M:%SZ")
return obj
