/* Prints what each method of a program takes: `consumer model.pte`. */
#include <etmetal_runner.h>
#include <stdio.h>

int main(int argc, char** argv) {
  EtmetalModule* module = NULL;
  if (argc != 2 || etmetal_module_load(argv[1], NULL, 0, ETMETAL_LOAD_MMAP, &module) != 0) {
    fprintf(stderr, "%s\n", argc == 2 ? etmetal_module_last_error() : "usage: consumer MODEL");
    return 1;
  }
  for (size_t i = 0; i < etmetal_module_num_methods(module); ++i) {
    const char* name = etmetal_module_method_name(module, i);
    const EtmetalMethodInfo* info = NULL;
    if (etmetal_module_method_info(module, name, &info) != 0) {
      fprintf(stderr, "%s\n", etmetal_module_last_error());
      return 1;
    }
    printf("%s: %zu inputs, %zu outputs\n", name, info->num_inputs, info->num_outputs);
  }
  etmetal_module_destroy(module);
  return 0;
}
