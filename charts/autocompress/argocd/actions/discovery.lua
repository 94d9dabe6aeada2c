-- Suspend and resume until the job has ended; retry where another try of the same spec can help.

local retriable = {
  PreflightFailed = true,
  StageFailed = true,
  DeadlineExceeded = true,
  EngineNotInstalled = true,
}

local ended, retry = false, false
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, found in ipairs(obj.status.conditions) do
    if found.type == "Stalled" and found.status == "True" then
      ended = true
      retry = retriable[found.reason] == true
    elseif found.type == "Ready" and found.status == "True" then
      ended = true
    end
  end
end
local suspended = obj.spec.suspend == true

return {
  suspend = { iconClass = "fa fa-fw fa-pause", disabled = ended or suspended },
  resume = { iconClass = "fa fa-fw fa-play", disabled = ended or not suspended },
  retry = { iconClass = "fa fa-fw fa-redo", disabled = not retry },
}
