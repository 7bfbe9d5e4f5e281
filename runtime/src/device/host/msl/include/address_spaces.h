// MSL's own words that mean nothing to a CPU, where all memory is one. Comes last: our own
// headers use some of them as ordinary names.
#pragma once
#define device
#define constant const
#define thread
#define threadgroup
#define threadgroup_imageblock
#define ray_data
#define object_data
