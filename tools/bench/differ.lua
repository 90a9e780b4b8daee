-- For wrk: the same page with another target each time, so that nobody
-- who remembers requests has seen this one before.
local number = 0

request = function()
    number = number + 1
    return wrk.format("GET", "/?" .. number)
end
