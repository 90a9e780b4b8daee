// race
