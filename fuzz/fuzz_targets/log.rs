#![no_main]

kv_fuzz::target!(kv_hostile::Target::Log);
