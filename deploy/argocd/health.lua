-- Health of every kind of flexmetal.dev, by the rules of kstatus. Argo CD runs it without Lua's libraries.
-- Generated into argocd-cm.yaml by `make generate`.

local function condition(name)
  if obj.status ~= nil and obj.status.conditions ~= nil then
    for _, found in ipairs(obj.status.conditions) do
      if found.type == name then
        return found
      end
    end
  end
  return nil
end

local function is_true(name)
  local found = condition(name)
  return found ~= nil and found.status == "True"
end

local function health(status, name, default)
  local found = condition(name)
  local message = default
  if found ~= nil and found.reason ~= nil then
    message = found.reason
    if found.message ~= nil and found.message ~= "" then
      message = message .. ": " .. found.message
    end
  end
  return {status = status, message = message}
end

if obj.metadata.deletionTimestamp ~= nil then
  return health("Progressing", "Ready", "Deletion is in progress")
end
-- A ServerCommand ends like a Job.
if is_true("Failed") then
  return health("Degraded", "Failed", "")
end
if is_true("Complete") then
  return health("Healthy", "Complete", "")
end
-- Before the generation: a suspended object keeps the one that it has applied.
if is_true("Suspended") then
  return health("Suspended", "Suspended", "")
end
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "Waiting for the operator to read the spec"}
end
if is_true("Stalled") then
  return health("Degraded", "Ready", "Stalled")
end
if is_true("Reconciling") or not is_true("Ready") then
  return health("Progressing", "Ready", "Waiting for the first status")
end
return health("Healthy", "Ready", "")
