-- Health of a CompressionJob in Argo CD.
-- Waiting in a queue is Progressing: only a job suspended by its owner is Suspended.

local function condition(type)
  if obj.status == nil or obj.status.conditions == nil then
    return nil
  end
  for _, found in ipairs(obj.status.conditions) do
    if found.type == type then
      return found
    end
  end
  return nil
end

local function holds(type)
  local found = condition(type)
  return found ~= nil and found.status == "True"
end

local function health(status, type)
  local found = condition(type)
  local message = found.reason or type
  if found.message ~= nil and found.message ~= "" then
    message = message .. ": " .. found.message
  end
  return { status = status, message = message }
end

if obj.metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = "Being deleted" }
end
if obj.status == nil or obj.status.observedGeneration == nil or obj.status.observedGeneration == 0 then
  return { status = "Progressing", message = "Waiting for the operator" }
end
if obj.status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "Waiting for the operator to see the last change" }
end
if holds("Stalled") then
  return health("Degraded", "Stalled")
end
if holds("Ready") then
  return health("Healthy", "Ready")
end
if holds("Suspended") and condition("Suspended").reason == "SuspendedBySpec" then
  return health("Suspended", "Suspended")
end
if holds("Suspended") then
  return health("Progressing", "Suspended")
end
if condition("Reconciling") ~= nil then
  return health("Progressing", "Reconciling")
end
return { status = "Progressing", message = "Waiting for the operator" }
